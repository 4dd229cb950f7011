"""Steps that several processes run together: models, and networks of any rate between two processes."""
