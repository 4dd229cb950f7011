"""What the commands print, built from data: pure functions that return renderables and print nothing."""
