//! `denial`: the body of a denial.

use tollgate_http::{DenialTemplate, DenialTemplateError};

use super::field::{ConfigField, FieldMap, list_or, nearest, unknown};
use super::names::DENIAL;

const CONTENT_TYPE: &str = "expected a media type, such as application/json";
const BODY: &str = "expected a template, such as Too many requests; retry in {retry_after} s";

/// Reads the section `denial`.
pub(super) fn read(field: &ConfigField<'_>) -> Option<DenialTemplate> {
    let mapping = FieldMap::new(field, DENIAL)?;
    let content_type = mapping.require("content_type", CONTENT_TYPE);
    let body = mapping.require("body", BODY);
    let (content_type, body) = (content_type?, body?);

    let media_type = content_type.string("media type", CONTENT_TYPE);
    let text = body.string("template", BODY);
    match DenialTemplate::new(media_type?, text?) {
        Ok(template) => Some(template),
        Err(error @ DenialTemplateError::ContentType) => content_type.invalid("media type", error),
        Err(DenialTemplateError::UnknownField { name }) if !body.is_private() => {
            let names = DenialTemplate::field_names();
            let found = format!("{{{name}}}");
            let suggestion = nearest(&name, &names);
            body.fail(unknown("field", &found, suggestion, &list_or(&names)))
        }
        // The parser's words can repeat a part of the value.
        Err(DenialTemplateError::UnknownField { .. } | DenialTemplateError::NotJson { .. })
            if body.is_private() =>
        {
            body.invalid("template", BODY)
        }
        Err(error) => body.fail(error),
    }
}
