"""What signatures say about workloads: how alike they are, and what each is made of. Nothing here imports torch."""
