"""Operations-research models: read them, solve them, check what the solver says."""
