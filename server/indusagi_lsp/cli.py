"""Console entry point."""
