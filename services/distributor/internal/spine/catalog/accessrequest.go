// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"context"
	"reflect"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/leatdev/leat/internal/contract/accessrule"
	"github.com/leatdev/leat/internal/kit/fielderr"
)

// Bounds of access requests.
const (
	minAccessTime = 5 * time.Minute
	maxAccessTime = 7 * 24 * time.Hour
	// MaxRequestWords is how many characters the reason of a request has at most, and the word of
	// its denial.
	MaxRequestWords = 500
	// RequestLife is how long a request stays open.
	RequestLife = 24 * time.Hour
	// requestMemory is how long a request is remembered that has ended, keptRequests how many of one
	// person, and keptInHub how many of all: each new request reads them.
	requestMemory = 30 * 24 * time.Hour
	keptRequests  = 20
	keptInHub     = 5000
	// maxOpenRequests bounds the open requests of one person, and maxOpenInHub the open requests of
	// all.
	maxOpenRequests = 5
	maxOpenInHub    = 1000
)

// RequestState is a stage of an access request. Every state but RequestOpen is final.
type RequestState string

// The states.
const (
	RequestOpen      RequestState = ""
	RequestApproved  RequestState = "approved"
	RequestDenied    RequestState = "denied"
	RequestWithdrawn RequestState = "withdrawn"
	RequestLapsed    RequestState = "lapsed"
)

// AccessRequest is a person's request for a role in a scope, for a limited time. Once it is stored,
// nothing of it changes except for its end.
type AccessRequest struct {
	Metadata
	Spec AccessRequestSpec
}

// AccessRequestSpec holds a request, and how it ended. Its JSON is its stored form.
type AccessRequestSpec struct {
	// Requester is the author, as bindings name them. RequesterUID is the author's as a user of the
	// hub. Empty: the author signs in with an identity provider, and has no account here.
	Requester    string `json:"requester"`
	RequesterUID string `json:"requesterUid,omitempty"`
	// Access is the requested role and its scope. It names no subjects and has no end.
	Access AccessBindingSpec `json:"access"`
	// Duration is how long the access lasts from the approval on.
	Duration time.Duration `json:"duration"`
	Reason   string        `json:"reason"`
	End      RequestEnd    `json:"end,omitzero"`
}

// RequestEnd is how a request ended. Its zero value is of an open one.
type RequestEnd struct {
	State RequestState `json:"state"`
	// By is the subject of the person who ended it, such as "user:ada"; HubSubject if it lapsed.
	By   string    `json:"by"`
	At   time.Time `json:"at"`
	Word string    `json:"word,omitempty"`
	// Binding is the name of the binding of an approval, which ended at AccessEndsAt unless it was
	// changed.
	Binding      string    `json:"binding,omitempty"`
	AccessEndsAt time.Time `json:"accessEndsAt,omitzero"`
}

// Key implements Object.
func (r *AccessRequest) Key() Key { return Key{KindAccessRequest, r.Name} }

func (r *AccessRequest) sameSpec(other Object) bool {
	o, ok := other.(*AccessRequest)
	return ok && reflect.DeepEqual(r.Spec, o.Spec)
}

func (r *AccessRequest) clone() Object { return new(*r) }

// SpecAt implements Plain.
func (r *AccessRequest) SpecAt() any { return &r.Spec }

func (r *AccessRequest) normalize()          { r.Spec.Access.normalize() }
func (r *AccessRequest) settle(Object) error { return nil }
func (r *AccessRequest) reachable() error    { return nil }

// checkReferences implements Object. A request may name what does not exist, so that it reveals
// nothing.
func (r *AccessRequest) checkReferences(context.Context, Reader) error { return nil }
func (r *AccessRequest) checkSettled(context.Context, Reader) error    { return nil }
func (r *AccessRequest) room(ProjectQuotas) Room                       { return Room{} }
func (r *AccessRequest) secrets() map[string]any                       { return nil }
func (r *AccessRequest) changesRelease(Object) bool                    { return false }

// Place implements Object: a request is where the binding is that it asks for.
func (r *AccessRequest) Place() Place { return Place{Binding: &r.Spec.Access} }

// LapsesAt returns when the request lapses unless it has ended before.
func (r *AccessRequest) LapsesAt() time.Time { return r.CreatedAt.Add(RequestLife) }

// StateAt returns the state at a time. A request lapses at its time, even if no replica of the hub
// has noticed it yet.
func (r *AccessRequest) StateAt(at time.Time) RequestState {
	if r.Spec.End.State == RequestOpen && !at.Before(r.LapsesAt()) {
		return RequestLapsed
	}
	return r.Spec.End.State
}

// isForgotten reports whether the request ended so long ago that it is not kept.
func (r *AccessRequest) isForgotten(at time.Time) bool {
	return r.Spec.End.State != RequestOpen && !at.Before(r.Spec.End.At.Add(requestMemory))
}

// BindingAt returns the binding that an approval at that time makes: for the author alone, and
// under the name of the request, which no other request ever has.
func (r *AccessRequest) BindingAt(at time.Time) *AccessBinding {
	spec := r.Spec.Access
	spec.Users, spec.Groups = []string{r.Spec.Requester}, nil
	spec.ExpiresAt = at.Add(r.Spec.Duration)
	spec.Description = "Access request " + r.Name
	return &AccessBinding{
		Metadata: Metadata{Name: r.Name, Annotations: map[string]string{AnnotationAccessRequest: r.Name}},
		Spec:     spec,
	}
}

// Validate implements Object.
func (r *AccessRequest) Validate() error {
	s := r.Spec
	return cmp.Or(
		r.validate(KindAccessRequest),
		s.validateAccess(),
		s.validateDuration(),
		validateWords("spec.reason", s.Reason, true),
		validateWords("word", s.End.Word, false),
	)
}

func (s AccessRequestSpec) validateAccess() error {
	access := s.Access
	switch {
	case access.Role == RoleNone:
		return fielderr.New("spec.role", "is required: viewer, operator, editor, admin or the name of a role")
	case access.Clusters.IsEmpty() && access.Projects.IsEmpty() && len(access.Services)+len(access.Repositories) == 0:
		return fielderr.New("spec.clusters", "is required: names, labels, or all: true; or name projects, services or repositories")
	}
	return cmp.Or(
		access.validateScope(),
		access.validateRole(),
		fielderr.Each("spec.rules", "rules", access.Rules, maxRules, func(field string, rule accessrule.Rule) error {
			return fielderr.Within(field, rule.Validate())
		}),
	)
}

func (s AccessRequestSpec) validateDuration() error {
	switch {
	case s.Duration < minAccessTime || s.Duration > maxAccessTime:
		return fielderr.New("spec.duration", "is %s; from %s to %s are allowed", s.Duration, minAccessTime, maxAccessTime)
	case s.Duration%time.Second != 0:
		return fielderr.New("spec.duration", "is %s; whole seconds are allowed", s.Duration)
	}
	return nil
}

// validateWords refuses a text that is not one line of visible characters. It is shown in
// terminals, chats and logs, so it may neither control them, nor hide or reorder what a person
// reads there.
func validateWords(field, text string, isRequired bool) error {
	switch {
	case isRequired && strings.TrimSpace(text) == "":
		return fielderr.New(field, "is required: why, in one line")
	case !utf8.ValidString(text):
		return fielderr.New(field, "is not valid UTF-8")
	case utf8.RuneCountInString(text) > MaxRequestWords:
		return fielderr.New(field, "has %d characters; at most %d are allowed", utf8.RuneCountInString(text), MaxRequestWords)
	case strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsGraphic(r) }):
		return fielderr.New(field, "holds a control character, or one that is not visible; write one line of plain text")
	}
	return nil
}
