//! Checks the content of a prompt or a steer before it is sent.

use kimi_agent_protocol::resource::has_scheme;

use crate::error::{Result, invalid_option};
use crate::messages::{Content, ContentPart};

/// Checks that the content is not empty, and that images, recordings and videos have URLs. Programs often pass the path of
/// a file, which the agent cannot read.
///
/// # Errors
/// Returns `InvalidOption` for `content`, with the place and the remedy.
pub(crate) fn check_content(content: &Content) -> Result<()> {
    let is_blank = |text: &str| text.trim().is_empty();
    let is_empty = match content {
        Content::Text(text) => is_blank(text),
        Content::Parts(parts) => {
            parts.iter().all(|part| matches!(part, ContentPart::Text(part) if is_blank(&part.text)))
        }
    };
    if is_empty {
        return Err(invalid_option("content", "it is empty; pass a text, or a part with content"));
    }
    let Content::Parts(parts) = content else { return Ok(()) };
    for (at, part) in parts.iter().enumerate() {
        let (name, media, remedy) = match part {
            ContentPart::Resource(part) => match part.problem() {
                Some(problem) => return Err(invalid_option("content", format!("content[{at}]: {problem}"))),
                None => continue,
            },
            ContentPart::ImageUrl(part) => (
                "image_url",
                &part.image_url,
                "make the part of a file with `image(path)`, in Rust `ContentPart::image_file(path)`",
            ),
            ContentPart::AudioUrl(part) => ("audio_url", &part.audio_url, "pass the bytes of a file as a data URI"),
            ContentPart::VideoUrl(part) => ("video_url", &part.video_url, "pass the bytes of a file as a data URI"),
            _ => continue,
        };
        if !has_scheme(&media.url) {
            let shown: String = media.url.chars().take(80).collect();
            let reason = format!("content[{at}]: the `url` of `{name}` is not a URL: {shown:?}; {remedy}");
            return Err(invalid_option("content", reason));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn checked(kind: &str, url: &str) -> Result<()> {
        let part = serde_json::from_value(json!({"type": kind, kind: {"url": url}})).expect("a part");
        check_content(&Content::Parts(vec![ContentPart::text("see"), part]))
    }

    #[test]
    fn path_as_url_is_refused() {
        for path in ["picture.png", "/tmp/a b.png", "./x:y.png", r"C:\pictures\a.png", ""] {
            let text = checked("image_url", path).expect_err(path).to_string();
            assert!(text.contains("content[1]") && text.contains("image(path)"), "{text}");
        }
        let text = checked("audio_url", "a.mp3").expect_err("a path").to_string();
        assert!(text.contains("`audio_url`") && text.contains("data URI"), "{text}");
    }

    #[test]
    fn wrong_resource_is_refused_with_its_place() {
        let part = serde_json::from_value(json!({"type": "resource", "uri": "a.md"})).expect("a part");
        let text =
            check_content(&Content::Parts(vec![ContentPart::text("see"), part])).expect_err("a path").to_string();
        assert!(text.contains("content[1]: the `uri` is not a URI: \"a.md\""), "{text}");
    }

    #[test]
    fn empty_content_is_refused() {
        for empty in ["".into(), " \n".into(), Content::Parts(vec![]), Content::Parts(vec![ContentPart::text("")])] {
            let text = check_content(&empty).expect_err("empty content").to_string();
            assert!(text.contains("it is empty"), "{text}");
        }
        assert_eq!(check_content(&"a".into()), Ok(()));
    }

    #[test]
    fn urls_are_accepted() {
        for url in ["data:,", "https://example.org/a.png", "ms://file", "FILE:///a.png"] {
            assert_eq!(checked("image_url", url), Ok(()), "{url}");
        }
    }
}
