"""Retrievers for other frameworks, each behind its extra: `langchain`, `llamaindex`. Importing it is free."""
