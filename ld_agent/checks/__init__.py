"""What may be said and stored: whose fact it is, what a reply invents, what contradicts. Asks no model, keeps nothing."""
