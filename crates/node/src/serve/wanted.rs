//! The slots that a request names: a number, an expression, or the names of the slots.

use kgate_control::state::{KSource, Slots};

use super::error::ApiError;
use crate::k_expression::KExpression;

/// What a request says of the slots of a gate.
#[derive(Clone, Debug, Default)]
pub(super) struct WantedSlots {
    /// A number.
    pub(super) k: Option<u32>,
    /// An expression; empty without one.
    pub(super) expression: String,
    /// The names of the slots; empty without names.
    pub(super) names: Vec<String>,
}

impl WantedSlots {
    /// The parameters of an HTTP request: `k` is a number or an expression, `names` are separated
    /// by commas.
    pub(super) fn of_query(k: Option<String>, names: Option<String>) -> Self {
        let names = names.map(|names| names.split(',').map(str::to_owned).collect());
        let names = names.unwrap_or_default();
        match k.as_deref().map(|k| (k, k.parse())) {
            None => Self { names, ..Self::default() },
            Some((_, Ok(k))) => Self { k: Some(k), names, ..Self::default() },
            Some((text, Err(_))) => Self { k: None, expression: text.to_owned(), names },
        }
    }

    /// The slots, with the expression resolved; none if nothing is said.
    pub(super) fn resolve(self) -> Result<Option<Slots>, ApiError> {
        let Self { k, expression, names } = self;
        if !expression.is_empty() {
            if k.is_some() || !names.is_empty() {
                let text = "an expression for k excludes a number and names: give one of them";
                return Err(ApiError::bad_request(text));
            }
            let k = KExpression::resolve(&expression)
                .map_err(|error| ApiError::bad_request(error.to_string()))?;
            return Ok(Some(Slots { k, source: KSource::Expression(expression) }));
        }
        if names.is_empty() {
            return Ok(k.map(Slots::from));
        }
        let slots = Slots::named(names);
        if let Some(k) = k.filter(|k| *k != slots.k) {
            let text = format!("k = {k} with {} names: leave out k, or name all slots", slots.k);
            return Err(ApiError::bad_request(text));
        }
        Ok(Some(slots))
    }
}
