"""Mixtures for continued pre-training: documents of several sources by weights, tokenised, packed, with a card."""
