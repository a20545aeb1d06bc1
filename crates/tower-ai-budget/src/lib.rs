//! Tower layer: cost budgets that reserve before the model call and settle after it
