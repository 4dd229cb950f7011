"""Layers of signatures, mixes and proxies as input for other programs: simulators, compilers, runtimes.

Everything is made from one manifest (manifest.py); a format is one file, listed in registry.py.

What is exported
    subjects, build_manifest, manifest, collectives, operands, mean_work
Operators as matrix products
    lowering, fused_layers
A few small layers in place of all
    scaling, scaled_layers, pursuit, systolic, sampling, simulator_proxy
The formats
    registry, conformance, manifest_files, scalesim, c_source, chakra, onnx_model, onnx_nodes, onnx_piece, onnx_refused
ONNX nodes by operators
    onnx_rules, onnx_pointwise, onnx_over_axes, onnx_windows, onnx_movement, onnx_lookups
"""
