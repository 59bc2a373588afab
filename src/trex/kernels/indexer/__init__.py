"""The lightning indexer: scores of compressed entries, the choice of the best, and the loss that trains the scores."""
