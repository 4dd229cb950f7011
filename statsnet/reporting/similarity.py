"""Groups of workloads as tables."""

from __future__ import annotations

from statsnet.analysis.similarity import Similarity
from statsnet.reporting.tables import Report, line, percent, points, table


def similarity_report(similarity: Similarity, environment: str, mode: str) -> Report:
    rows = [
        (cluster.representative, str(len(cluster.members)), ", ".join(cluster.members))
        for cluster in sorted(similarity.clusters, key=lambda c: (-len(c.members), c.representative))
    ]
    groups, missed = len(similarity.clusters), similarity.missed
    return [
        line(f"{len(similarity.names)} workloads, {mode}, profiled on {environment}"),
        table("Groups by where the time goes", ("stands for all", "of", "workloads"), rows, left=3),
        line(
            f"{groups} groups, silhouette {similarity.silhouette:.2f}. Running the {groups} alone costs "
            f"{percent(similarity.cost)} of the time of all. Weighted by their groups, their shares of time are "
            f"{points(missed['category'])} (categories) and {points(missed['kernel_class'])} (kernel classes) away "
            "from those of all workloads in equal shares."
        ),
    ]
