"""Recordings that others made: profiler traces of any device, read into signatures.

Which kind of file it is
    kinds, other_tools, imported, reading
A profiler's recording
    kineto, json_events, chrome_trace, trace_fields, copies, phases, environment, process_groups, lacks, clock
What its operators were called with
    operators, arguments, described, told_by_kernels, calls, parameters
What other parts and files add
    graphs, joined_files
Files with counts alone
    execution_trace, execution_nodes
ONNX models, counts too
    onnx_model, onnx_file, onnx_graph, onnx_call, onnx_operators, onnx_products, onnx_maps, onnx_reductions,
    onnx_einsum, onnx_indexing, onnx_quantized, onnx_values
ONNX Runtime's own operators
    onnx_fused, onnx_parts, onnx_attention
"""
