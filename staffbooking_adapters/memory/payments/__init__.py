"""Operations and payees in memory."""
