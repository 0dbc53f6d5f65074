// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"bytes"
	"time"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// touchEvery is how old the stored time of a browser's last use may get.
const touchEvery = time.Minute

// Stored is a session as a store keeps it, and one of its tokens. A proof is the first token of a
// session. It is the current one until it has a successor.
type Stored struct {
	Held

	// Challenge is as in New.
	Challenge []byte
	// Successor is the hash of the token's successor; nil: it has none. IsPassed means that the
	// successor has one, too.
	Successor []byte
	IsPassed  bool
}

// Verdict is the decision about a session whose token a caller presents.
type Verdict struct {
	// Err is the answer to the caller; nil: the caller has the session.
	Err error
	// Ends means that the session ends.
	Ends bool
	// Succeeds means that the presented token gets its successor. After a redemption the session is
	// live.
	Succeeds bool
	// Touches means that the time of the last use is stored.
	Touches bool
}

// Redeem decides about a redemption of the session's proof.
func (s Stored) Redeem(r Redemption) Verdict {
	isCode := s.Client == catalog.ClientCLI
	switch {
	case r.ID != "" && s.ID != r.ID, s.Client == catalog.ClientBrowser, isCode != (r.ID != ""):
		return Verdict{Err: ErrProof}
	case isCode && !bytes.Equal(s.Challenge, r.Verifier):
		return Verdict{Err: ErrProof, Ends: true}
	case s.Successor != nil && bytes.Equal(s.Successor, r.First):
		return Verdict{} // the answer was lost
	case s.Successor != nil && isCode:
		return Verdict{Err: ErrReused, Ends: true}
	case s.Successor != nil, s.Expired(r.At):
		return Verdict{Err: ErrProof}
	}
	return Verdict{Succeeds: true}
}

// Use decides about a use of the token.
func (s Stored) Use(u Use) Verdict {
	isBrowser := s.Client == catalog.ClientBrowser
	last := s.LastUsedAt
	if last.Before(s.CreatedAt) {
		last = s.CreatedAt
	}
	switch {
	case s.Pending, isBrowser != (u.Next == nil):
		return Verdict{Err: ErrEnded}
	case s.Expired(u.At), isBrowser && last.Before(u.IdleBefore):
		return Verdict{Err: ErrEnded, Ends: true}
	case s.Successor == nil:
		return Verdict{Succeeds: !isBrowser, Touches: !isBrowser || u.At.Sub(last) >= touchEvery}
	case isBrowser, s.IsPassed, !bytes.Equal(s.Successor, u.Next):
		return Verdict{Err: ErrReused, Ends: true}
	}
	return Verdict{} // the answer was lost; that holds until the successor itself is used
}
