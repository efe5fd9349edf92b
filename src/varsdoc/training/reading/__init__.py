"""The reading stage: a small model learns to read from pixels, on generated pages whose words are known."""
