"""The SQL that both stores share. Knows no connection and no dialect but the statements it is given."""
