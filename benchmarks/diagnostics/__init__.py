"""Programs that find the cause of an error or of noise."""
