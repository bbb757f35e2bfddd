"""What a law is trained on: situations, bundles and splits, labels, transitions, their store."""
