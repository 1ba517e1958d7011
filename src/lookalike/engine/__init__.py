"""Where algorithms and storage meet: what `Collection` is made of, and nobody else imports."""
