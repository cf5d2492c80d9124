"""The models: providers, the bundled local model, retries, prices.

All model calls of the house go through here. Importing this package is cheap; the model libraries are
imported in a thread at the first call.
"""
