"""What signatures say about workloads: how alike they are, and what each is made of. Nothing here imports torch.

Which signatures
    database
What they are made of
    characteristics, sizes
Which are alike
    similarity
What each field of a file reveals
    audit, audit_files
"""
