"""The service: a collection over HTTP, and the page that people use. See `app.create_app`."""
