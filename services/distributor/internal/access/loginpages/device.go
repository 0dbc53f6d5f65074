// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package loginpages

import (
	"net/http"
	"net/url"
	"time"

	"github.com/leatdev/leat/services/distributor/internal/access/session"
)

const deviceTitle = "Sign in a machine"

// device shows the form for the code of a machine without a browser.
func (s *Pages) device(w http.ResponseWriter, r *http.Request) {
	show(w, http.StatusOK, page{
		Title: deviceTitle, Form: form(w, r),
		Text: "Type the code that leat login shows on your machine. Type no code that somebody sent you: it would sign them in as you.",
	})
}

// typed answers the form with a link to the provider. It is a link, and not a redirect, so that the
// person sees once more what they are about to do.
func (s *Pages) typed(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil || !isOwnForm(r, r.PostForm.Get("form")) || !isOwnSite(r) {
		fail(w, http.StatusForbidden, "The form was not filled in on this page.", "Open "+DevicePath+" again, and type the code there.")
		return
	}
	code, ok := session.NormalUserCode(r.PostForm.Get("code"))
	if !ok {
		show(w, http.StatusUnprocessableEntity, page{
			Title: deviceTitle, Form: form(w, r), Text: "That is not a code of leat login: it has eight letters, such as WDJB-MJHT.",
		})
		return
	}
	open := s.p.View.Providers()
	if len(open) == 0 {
		s.askWhich(w, nil)
		return
	}
	text, err := s.seal(ticket{Form: r.PostForm.Get("form"), UserCode: code, Ends: time.Now().Add(transactionLife)}, placeTicket)
	if err != nil {
		s.broken(w, r, err)
		return
	}
	show(w, http.StatusOK, page{
		Title: "Sign in the machine that shows " + code + "?",
		Text:  "Go on only if you see this code on your own machine.",
		Links: s.links(open, url.Values{"ticket": {text}}),
	})
}

// isOwnSite reports whether a browser sends a form for a page of the hub's own. Old browsers send
// no such header; their forms are held by the cookie.
func isOwnSite(r *http.Request) bool {
	return http.NewCrossOriginProtection().Check(r) == nil
}
