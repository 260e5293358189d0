"""Operations, payees and statements in SQL."""
