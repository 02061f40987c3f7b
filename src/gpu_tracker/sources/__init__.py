"""What is measured, one module a resource. Each source gives a plain reading in base units at every sample."""
