from measuring import proxy_folder, temporary_files  # noqa: F401 (fixtures)
