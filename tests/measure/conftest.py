from measuring import jobs, proxy_folder  # noqa: F401 (fixtures)
