//! Signatures of a text that is not in them: a JWS (RFC 7515) without its payload, as Appendix F
//! says.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac};
use serde_json::json;
use sha2::Sha256;

/// The signature of a text with a token, by HS256.
pub fn detached_signature(content: &str, token_id: &str, token_secret: &[u8]) -> String {
    let header = json!({"alg": "HS256", "kid": token_id}).to_string();
    let header = URL_SAFE_NO_PAD.encode(header);
    let payload = URL_SAFE_NO_PAD.encode(content);
    let mut hash = Hmac::<Sha256>::new_from_slice(token_secret).expect("a key of any length does");
    hash.update(format!("{header}.{payload}").as_bytes());
    let signature = URL_SAFE_NO_PAD.encode(hash.finalize().into_bytes());
    format!("{header}..{signature}")
}
