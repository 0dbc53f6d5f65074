// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/kit/fielderr"
)

const (
	// maxLimitNames is how many names of each kind a limit is described by.
	maxLimitNames = 3
	maxTokenLabel = 128
)

const (
	// DefaultTokenLife is how long an API token is valid by default.
	DefaultTokenLife = 90 * 24 * time.Hour
	// MaxTokenLife is the longest that an API token can be valid. Tokens that the hub's own settings
	// make, such as the first administrator's, are not bound by it.
	MaxTokenLife = 366 * 24 * time.Hour
	// MaxTokensPerUser bounds the tokens of one user that have not ended.
	MaxTokensPerUser = 100
)

// Token is an API token; its secret is not kept, only the hash by which the store knows it.
type Token struct {
	// ID names the token and tells nothing of it.
	ID string
	// User and UserUID are whose it is.
	User    string
	UserUID string
	// Label is its purpose.
	Label     string
	CreatedAt time.Time
	// CreatedBy is who made it, such as "user:ada"; empty for tokens of earlier versions.
	CreatedBy string
	// ExpiresAt is when it ends; zero: never.
	ExpiresAt time.Time
	// Limit is the most that it gives. Nil: all that its owner may do.
	Limit *TokenLimit
	// MadeWith is the id of the token that it was made with, and ends with: that of a browser has one,
	// and one that was made with a token that has a limit. Empty: none.
	MadeWith string
	// LastUsedAt is when it was last used, to about five minutes; zero: never. LastUsedFrom is the
	// address of that caller, if it is known. The log of changes leaves both out.
	LastUsedAt   time.Time
	LastUsedFrom string
}

// Expired reports whether the token has ended.
func (t Token) Expired(at time.Time) bool { return !t.ExpiresAt.IsZero() && !at.Before(t.ExpiresAt) }

// TokenLimit is the most that an API token gives, whatever its owner may do: a role in a scope, as a
// binding gives it. Its JSON is its stored form.
type TokenLimit struct {
	Role         RoleName         `json:"role"`
	Hub          bool             `json:"hub,omitempty"`
	Projects     ProjectScope     `json:"projects,omitzero"`
	Clusters     ClusterSelection `json:"clusters,omitzero"`
	Services     []string         `json:"services,omitempty"`
	Repositories []string         `json:"repositories,omitempty"`
}

// Settled returns the limit in its one stored form. Without a role it gives the role of
// administrators, and without a scope the whole hub: a limit does not limit what it does not name.
func (l TokenLimit) Settled() TokenLimit {
	spec := l.Binding(time.Time{})
	spec.normalize()
	hasScope := spec.Hub || !spec.Projects.IsEmpty() || !spec.Clusters.IsEmpty() || len(spec.Services)+len(spec.Repositories) > 0
	return TokenLimit{
		Role: cmp.Or(spec.Role, RoleAdmin), Hub: !hasScope || spec.Hub, Projects: spec.Projects, Clusters: spec.Clusters,
		Services: spec.Services, Repositories: spec.Repositories,
	}
}

// Binding returns the limit as the spec of a binding without subjects, which ends when the token
// does.
func (l TokenLimit) Binding(ends time.Time) AccessBindingSpec {
	return AccessBindingSpec{
		Role: l.Role, Hub: l.Hub, Projects: l.Projects, Clusters: l.Clusters, Services: l.Services, Repositories: l.Repositories, ExpiresAt: ends,
	}
}

// Validate checks a settled limit as a binding is checked.
func (l TokenLimit) Validate() error {
	spec := l.Binding(time.Time{})
	err := cmp.Or(spec.validateScope(), spec.validateRole())
	if e, ok := errors.AsType[*fielderr.Error](err); ok {
		return &fielderr.Error{Path: "limit." + strings.TrimPrefix(e.Path, "spec."), Message: e.Message}
	}
	return err
}

// String describes the limit for people, such as "viewer in project shop".
func (l TokenLimit) String() string {
	var scopes []string
	add := func(one, several string, names []string) {
		shown := make([]string, 0, maxLimitNames)
		for _, name := range names[:min(len(names), maxLimitNames)] {
			shown = append(shown, objectname.Display(name))
		}
		switch more := len(names) - len(shown); {
		case len(names) == 1:
			scopes = append(scopes, one+" "+shown[0])
		case more > 0:
			scopes = append(scopes, fmt.Sprintf("%s %s and %d more", several, strings.Join(shown, ", "), more))
		case len(names) > 1:
			scopes = append(scopes, several+" "+strings.Join(shown, ", "))
		}
	}
	if l.Hub {
		scopes = append(scopes, "the hub")
	}
	if l.Projects.All {
		scopes = append(scopes, "all projects")
	}
	add("project", "projects", l.Projects.Names)
	if l.Clusters.All {
		scopes = append(scopes, "all clusters")
	}
	add("cluster", "clusters", l.Clusters.Names)
	if l.Clusters.Labels != nil {
		scopes = append(scopes, "clusters by labels")
	}
	add("service", "services", l.Services)
	add("repository", "repositories", l.Repositories)
	return string(l.Role) + " in " + strings.Join(scopes, "; ")
}

// NewToken describes a token that is to be made.
type NewToken struct {
	// User is the name of its owner.
	User string
	// Label is its purpose.
	Label string
	// Hash identifies it in the store.
	Hash []byte
	// ExpiresAt is when it ends; zero: never.
	ExpiresAt time.Time
	// Limit is the most that it gives. Nil: all that its owner may do.
	Limit *TokenLimit
	// MadeWith is the id of the token that it is made with, and ends with. Empty: none.
	MadeWith string
	// IsOnce means that the token must not have been there before, not even if it has ended since.
	IsOnce bool
}

// ErrTokenUsed means that a token which may be made once was there before. It has ended.
var ErrTokenUsed = errors.New("the token was made before")

// SignIn is who comes with an API token.
type SignIn struct {
	User  *User
	Token Token
}

// TokenUse is the last use of a token that a replica has noticed.
type TokenUse struct {
	// ID names the token.
	ID string
	At time.Time
	// From is the address of the caller; empty if it is not known.
	From string
}

// People keeps users' API tokens.
type People interface {
	// EnsureToken makes the user, known by its name, be there with exactly these groups and the
	// token, known by its hash, be theirs until it expires; zero: it does not expire. It has no limit.
	// Other tokens of the same label end.
	EnsureToken(ctx context.Context, user User, label string, hash []byte, expires time.Time) error
	// UserByToken returns who owns a token. Error: ErrNotFound, also for one that has ended.
	UserByToken(ctx context.Context, hash []byte) (SignIn, error)
	// TouchTokens stores when tokens were last used, all or none. A token that is gone is no error, and
	// a use that is older than the stored one changes nothing.
	TouchTokens(ctx context.Context, uses []TokenUse) error
	// CreateToken stores a token. Tokens of the user that have ended are removed before there are too
	// many. Errors: *NotFoundError for the user, and for the token that it was made with; a
	// *fielderr.Error for a user with MaxTokensPerUser of them; ErrTokenUsed.
	CreateToken(ctx context.Context, token NewToken) (Token, error)
	// ListTokens returns all tokens by user, label and id; of one user if its name is given.
	ListTokens(ctx context.Context, user string) ([]Token, error)
	// DeleteToken ends a token, and the tokens that were made with it. Error: *NotFoundError.
	DeleteToken(ctx context.Context, id string) error
}

// MadeWith returns the tokens that were made with the one of that id, and with those again.
func MadeWith(id string, all []Token) []Token {
	made := slices.DeleteFunc(slices.Clone(all), func(t Token) bool { return t.MadeWith != id })
	for _, token := range made {
		made = append(made, MadeWith(token.ID, all)...)
	}
	return made
}

// ValidateTokenLabel checks what a token is called.
func ValidateTokenLabel(label string) error {
	switch {
	case strings.TrimSpace(label) == "":
		return fielderr.New("label", "is required: say what the token is for")
	case len(label) > maxTokenLabel:
		return fielderr.New("label", "has %d bytes; at most %d are allowed", len(label), maxTokenLabel)
	case strings.ContainsFunc(label, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return fielderr.New("label", "holds a control character")
	}
	return nil
}
