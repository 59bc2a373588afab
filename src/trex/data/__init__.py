"""Operations-research documents: families of problems, their texts, and what proves their answers."""
