"""A search over designs, with Optuna, by one process or by several machines.

    search, design_space, study, search_identity
Where its results lie
    study_storage, journal, postgresql, storage_errors
"""
