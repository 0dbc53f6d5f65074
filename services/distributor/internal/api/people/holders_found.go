// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/services/distributor/internal/access/authz"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalogwire"
	"github.com/leatdev/leat/services/distributor/internal/spine/journal"
)

// signIn is a person whom an identity provider put into groups at some time.
type signIn struct {
	person string
	groups []string
	at     time.Time
}

// signIns returns the sign-ins that can have lasted into the span, and their renewals, the oldest
// first.
func (s *Service) signIns(ctx context.Context, q holdersQuery) ([]signIn, error) {
	var entries []journal.Entry
	query := journal.Query{
		Kind: string(catalog.KindSession), Outcome: journal.OutcomeOK, Since: q.since.Add(-catalog.DefaultSession), Until: q.until, Limit: recordsPage,
	}
	err := s.eachRecord(ctx, query, func(e journal.Entry) error {
		if entries = append(entries, e); len(entries) > maxUndone {
			return fmt.Errorf("%w: more than %d sign-ins", errTooMuch, maxUndone)
		}
		return nil
	})
	slices.Reverse(entries)
	return signInsOf(entries), err
}

// signInsOf returns the people and groups in the records of sessions, the oldest first. The record of a
// renewal has only the groups that changed. Records of earlier versions have none, and are left out.
func signInsOf(entries []journal.Entry) []signIn {
	var all []signIn
	sessions := journal.NewPast(string(catalog.KindSession))
	for _, e := range entries {
		sessions.Redo(e)
		document, err := sessions.Document(journal.ObjectName{Kind: e.Kind, Name: e.Name})
		if err != nil || document == nil {
			continue
		}
		var session struct {
			Spec struct {
				Person string
				Groups []string
			}
		}
		if err := json.Unmarshal(document, &session); err != nil || session.Spec.Person == "" {
			continue
		}
		all = append(all, signIn{person: session.Spec.Person, groups: session.Spec.Groups, at: e.Time})
	}
	return all
}

// holder is a person or a group who could send the request by one grant.
type holder struct {
	person, subject string
	grant           authz.Grant
	from, until     time.Time
	signedInAt      time.Time
}

// id is common to what one holder held at several times.
func (h *holder) id() string {
	return fmt.Sprintf("%q", []string{
		h.person, h.subject, h.grant.Name(), string(h.grant.Role()), strings.Join(h.grant.Groups(), ","), fmt.Sprint(h.grant.Rules()),
		h.grant.Ends().String(), h.signedInAt.String(),
	})
}

// maxGaps bounds the gaps that an answer names.
const maxGaps = 100

// holdersFound collects an answer, from the end of the span to its beginning.
type holdersFound struct {
	query   holdersQuery
	signIns []signIn
	// existed is true if the cluster existed at some time within the span.
	existed bool
	holders []*holder
	// latest are the periods of holders that earlier times can extend.
	latest map[string]*holder
	gaps   []string
}

func newHoldersFound(q holdersQuery, signIns []signIn) *holdersFound {
	return &holdersFound{query: q, signIns: signIns, latest: map[string]*holder{}}
}

// add adds who could send the request while a state lasted.
func (f *holdersFound) add(at state, from, until time.Time) error {
	if at.Target == nil {
		return nil
	}
	f.existed = true
	for _, grant := range at.Allowed(f.query.request, from) {
		end := until
		if ends := grant.Ends(); !ends.IsZero() && ends.Before(end) {
			end = ends
		}
		for _, subject := range grant.Subjects {
			for _, h := range f.behind(subject, at.users, from, end) {
				h.grant = grant
				f.extend(h)
			}
		}
	}
	if len(f.holders) > maxHolders {
		return fmt.Errorf("%w: more than %d people and groups", errTooMuch, maxHolders)
	}
	return nil
}

// behind returns the people of a subject, and for a group the group as a whole.
func (f *holdersFound) behind(subject string, users []*catalog.User, from, until time.Time) []*holder {
	kind, name, _ := strings.Cut(subject, ":")
	if kind == "user" {
		return []*holder{{person: name, subject: subject, from: from, until: until}}
	}
	all := []*holder{{subject: subject, from: from, until: until}}
	for _, user := range users {
		if slices.Contains(user.Spec.Groups, name) {
			all = append(all, &holder{person: user.Name, subject: subject, from: from, until: until})
		}
	}
	known := map[string]bool{}
	for _, s := range f.signIns {
		if known[s.person] || !s.at.Before(until) || s.at.Before(from.Add(-catalog.DefaultSession)) || !slices.Contains(s.groups, name) {
			continue
		}
		known[s.person] = true
		h := &holder{person: s.person, subject: subject, from: from, until: until, signedInAt: s.at}
		if s.at.After(from) {
			h.from = s.at
		}
		all = append(all, h)
	}
	return all
}

// extend adds a holder, or the time to one that held the same directly afterwards.
func (f *holdersFound) extend(h *holder) {
	id := h.id()
	if later, ok := f.latest[id]; ok && later.from.Equal(h.until) {
		later.from = h.from
		return
	}
	f.holders = append(f.holders, h)
	f.latest[id] = h
}

// lacks adds a gap if the object had fields that no record tells of.
func (f *holdersFound) lacks(past *journal.Past, name journal.ObjectName, e journal.Entry) {
	switch {
	case e.Omitted == 0 || !past.IsLacking(name):
	case len(f.gaps) == maxGaps:
		f.gaps = append(f.gaps, "there are more such records")
	case len(f.gaps) < maxGaps:
		f.gaps = append(f.gaps, fmt.Sprintf("%s %s may have had more before %s: the record %s had no room for %d fields",
			strings.ToLower(name.Kind), name.Name, e.Time.UTC().Format(time.RFC3339), e.ID, e.Omitted))
	}
}

// restored adds the gap before a restore of the hub: the records between the backup and it are lost.
func (f *holdersFound) restored(e journal.Entry) {
	if e.Verb == catalog.VerbRestore && len(f.gaps) < maxGaps {
		f.gaps = append(f.gaps, fmt.Sprintf("the hub was %s at %s, so what was changed between the backup and that time is not known here; the outputs of the "+
			"audit log may have it", cmp.Or(e.Reason, "restored from a backup"), e.Time.UTC().Format(time.RFC3339)))
	}
}

// messages returns the answer by person, subject and binding.
func (f *holdersFound) messages(q holdersQuery) []*fleetv1.AccessHolder {
	slices.SortStableFunc(f.holders, func(a, b *holder) int {
		return cmp.Or(cmp.Compare(a.person, b.person), cmp.Compare(a.subject, b.subject), cmp.Compare(a.grant.Name(), b.grant.Name()), a.from.Compare(b.from))
	})
	return wire.Each(f.holders, func(h *holder) *fleetv1.AccessHolder {
		reason := reasonMessages([]authz.Grant{h.grant})[0]
		reason.Subjects = nil
		m := &fleetv1.AccessHolder{Person: h.person, Subject: h.subject, Reason: reason, SignedInAt: catalogwire.Timestamp(h.signedInAt)}
		if h.from.After(q.since) {
			m.Since = catalogwire.Timestamp(h.from)
		}
		if h.until.Before(q.until) {
			m.Until = catalogwire.Timestamp(h.until)
		}
		return m
	})
}
