from server_fixtures import client, served, store  # noqa: F401 - fixtures
