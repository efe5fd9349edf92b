def make_queries(content, words, rng, n): return []
