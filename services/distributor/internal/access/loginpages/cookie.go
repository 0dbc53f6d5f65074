// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package loginpages

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/distributor/internal/access/session"
)

// Cookies. Their prefix makes browsers keep them to this host and to https.
const (
	// SessionCookie holds a browser's session as ID.TOKEN. It counts for SessionService alone.
	SessionCookie = "__Host-leat-session"

	transactionCookie = "__Host-leat-oidc"
	formCookie        = "__Host-leat-form"

	// maxSealed bounds a cookie that is opened for a stranger.
	maxSealed = 4 << 10
)

// The kinds of sealed values, so that one does not open as the other.
const (
	placeTransaction = "transaction"
	placeTicket      = "ticket"
)

// gone is the age of a cookie that a browser is to forget.
const gone = -1

// laxCookie returns a cookie that comes along when another site leads here.
func laxCookie(name, value string, seconds int) *http.Cookie {
	return &http.Cookie{Name: name, Value: value, Path: "/", MaxAge: seconds, Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode}
}

// strictCookie returns a cookie that comes with requests of the hub's own pages alone.
func strictCookie(name, value string, seconds int) *http.Cookie {
	return &http.Cookie{Name: name, Value: value, Path: "/", MaxAge: seconds, Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode}
}

// setTransaction keeps a sign-in in the browser. The provider sends the person back from another
// site, which a cookie with SameSite=Strict would not survive.
func (s *Pages) setTransaction(w http.ResponseWriter, t transaction) error {
	value, err := s.seal(t, placeTransaction)
	if err == nil {
		http.SetCookie(w, laxCookie(transactionCookie, value, int(transactionLife/time.Second)))
	}
	return err
}

// clearTransaction makes the browser forget the sign-in, whatever becomes of it: it is for one use.
func clearTransaction(w http.ResponseWriter) {
	http.SetCookie(w, laxCookie(transactionCookie, "", gone))
}

// transaction returns the sign-in that began in this browser.
func (s *Pages) transaction(r *http.Request) (t transaction, err error) {
	kept, err := r.Cookie(transactionCookie)
	if err != nil {
		return t, err
	}
	if err := s.open(kept.Value, placeTransaction, &t); err != nil {
		return transaction{}, err
	}
	if !time.Now().Before(t.Ends) || t.State == "" {
		return transaction{}, errors.New("the transaction has ended")
	}
	return t, nil
}

func setSession(w http.ResponseWriter, begun session.Begun) {
	http.SetCookie(w, KeepSession(begun.Session.ID, begun.Token, begun.Session.EndsAt))
}

// KeepSession returns the cookie that makes a browser keep a session until it ends.
func KeepSession(id string, token secret.Text, ends time.Time) *http.Cookie {
	return strictCookie(SessionCookie, id+"."+token.Reveal(), int(time.Until(ends)/time.Second))
}

// ClearSession returns the cookie that makes a browser forget its session.
func ClearSession() *http.Cookie { return strictCookie(SessionCookie, "", gone) }

// ParseSession returns the parts of a session's cookie.
func ParseSession(value string) (id, token string, ok bool) {
	id, token, ok = strings.Cut(value, ".")
	return id, token, ok && id != "" && token != ""
}

// ticket ties a typed code to the browser in which it was typed, so that no page of another site
// has a person sign in another person's machine.
type ticket struct {
	Form     string    `json:"f"`
	UserCode string    `json:"c"`
	Ends     time.Time `json:"e"`
}

// form returns the random text that ties the form of /device to this browser, and sets its cookie
// unless the browser has sent one.
func form(w http.ResponseWriter, r *http.Request) string {
	if kept, err := r.Cookie(formCookie); err == nil && len(kept.Value) >= 26 && len(kept.Value) <= 64 {
		return kept.Value
	}
	text := rand.Text()
	http.SetCookie(w, strictCookie(formCookie, text, int(transactionLife/time.Second)))
	return text
}

// isOwnForm reports whether a form was filled in in this browser.
func isOwnForm(r *http.Request, sent string) bool {
	kept, err := r.Cookie(formCookie)
	return err == nil && sent != "" && subtle.ConstantTimeCompare([]byte(kept.Value), []byte(sent)) == 1
}

func (s *Pages) openTicket(r *http.Request, text string) (userCode string, ok bool) {
	var t ticket
	if s.open(text, placeTicket, &t) != nil || !time.Now().Before(t.Ends) || !isOwnForm(r, t.Form) {
		return "", false
	}
	return t.UserCode, true
}

func (s *Pages) seal(v any, place string) (string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	sealed, err := s.sealer.Seal(text, []byte(place))
	return base64.RawURLEncoding.EncodeToString(sealed), err
}

func (s *Pages) open(text, place string, v any) error {
	if len(text) > maxSealed {
		return errors.New("too long")
	}
	sealed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return err
	}
	plain, err := s.sealer.Open(sealed, []byte(place))
	if err != nil {
		return err
	}
	return json.Unmarshal(plain, v)
}
