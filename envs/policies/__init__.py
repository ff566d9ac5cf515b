"""What chooses the next message: the expert, scripted policies and language models. None of them sees the log or the ledger."""
