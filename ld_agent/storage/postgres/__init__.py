"""The store on PostgreSQL. Knows no recall and no model."""
