"""Graph networks: gathering and scattering along edges, with the degrees of real graphs."""

from reference_workloads.shipped import shipped

add = shipped("graph")

add(
    "gcn",
    title="GCN, Cora",
    source="Kipf and Welling, Semi-supervised classification with graph convolutional networks, arXiv "
    "1609.02907; features, nodes and edges of Cora",
    parameters=23_063,  # none published; the sizes give 23,063
    sample={"batch": 1},
    presets={"standard": {"batch": 1}, "small": {"batch": 1}, "tiny": {"batch": 2, "nodes": 100, "features": 64}},
    optimizer="adam",
    tags=("AI Matrix", "graph", "torch-geometric", "2016"),
)

add(
    "graphsage",
    title="GraphSAGE, sampled neighbourhoods of Reddit's size",
    source="Hamilton et al., Inductive representation learning on large graphs, arXiv 1706.02216; sizes as "
    "in torch-geometric's example for Reddit",
    parameters=329_513,  # none published; the sizes give 0.33 M
    sample={"batch": 1},
    presets={"standard": {"batch": 1024}, "small": {"batch": 256}, "tiny": {"batch": 4, "features": 32, "hidden": 16}},
    optimizer="adam",
    tags=("graph", "neighbour sampling", "torch-geometric", "2017"),
)

add(
    "rgat",
    title="R-GAT, sampled neighbourhoods like IGBH's",
    source="Busbridge et al., Relational graph attention networks, arXiv 1904.05811; layers, relations and "
    "sizes as in MLPerf training v4.0",
    parameters=13_115_303,  # none published; the sizes give 13.1 M
    sample={"batch": 1},
    presets={"standard": {"batch": 1024}, "small": {"batch": 8}, "tiny": {"batch": 2, "features": 32, "hidden": 16}},
    optimizer="adam",
    tags=("MLPerf", "graph", "attention", "heterogeneous", "torch-geometric", "2019"),
)
