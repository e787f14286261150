"""Faces: the command line and whatever else shows what Remit does; they translate, and nothing else."""
