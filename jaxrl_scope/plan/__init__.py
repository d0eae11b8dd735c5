"""What a run would take: memory, arithmetic and traffic, from programs compiled but never run."""
