"""Devices that are not at hand: what was recorded of them, and times from that record.

A device recorded here
    record, kernel_model
A device from published tables
    tables/, device_record, record_folder, names, hardware, reached, recording_rows
The model of an operator's time
    operator_work, operator_features, tree_fit, fit_performance, performance_model
From captured calls to times
    operator_mapping, table_times, counted_dtypes
A proxy made for a device that is not here
    recorded_bench, other_devices, cut_risk
All steps of making a proxy, here or not
    make_proxy, update_proxy
"""
