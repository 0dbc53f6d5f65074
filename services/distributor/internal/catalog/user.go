// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"slices"
	"time"
)

// AdminGroup is the group whose members may do everything.
const AdminGroup = "leat:admins"

// BreakGlassUser is who acts for people in an emergency, when they cannot sign in: a member of
// AdminGroup whose every call is on record.
const BreakGlassUser = "break-glass"

// User is a person whom the hub knows itself.
type User struct {
	Metadata
	Spec UserSpec
}

// UserSpec is what is wanted of a user.
type UserSpec struct {
	// Description is a sentence for people.
	Description string
	// Groups that the user is in, rising, each once.
	Groups []string
}

// Key implements Object.
func (u *User) Key() Key { return Key{KindUser, u.Name} }

func (u *User) sameSpec(other Object) bool {
	o, ok := other.(*User)
	return ok && u.Spec.Description == o.Spec.Description && slices.Equal(u.Spec.Groups, o.Spec.Groups)
}

func (u *User) clone() Object { return new(*u) }

// KindToken is the kind of tombstones of API tokens, which are not objects.
const KindToken Kind = "Token"

// Token is an API token; its secret is not kept, only the hash by which the store knows it.
type Token struct {
	// ID names the token and tells nothing of it.
	ID string
	// User and UserUID are whose it is.
	User    string
	UserUID string
	// Label says what it is for.
	Label     string
	CreatedAt time.Time
	// ExpiresAt is when it ends; zero: never.
	ExpiresAt time.Time
	// LastUsedAt is when it was last used, to about five minutes; zero: never. The log of changes
	// leaves it out.
	LastUsedAt time.Time
}

// Expired reports whether the token has ended.
func (t Token) Expired(at time.Time) bool { return !t.ExpiresAt.IsZero() && !at.Before(t.ExpiresAt) }

// SignIn is who comes with an API token.
type SignIn struct {
	User  *User
	Token Token
}

// People keeps users' API tokens.
type People interface {
	// EnsureToken makes the user, known by its name, be there with exactly these groups and the
	// token, known by its hash, be theirs until it expires; zero: it does not expire. Other tokens of the
	// same label end.
	EnsureToken(ctx context.Context, user User, label string, hash []byte, expires time.Time) error
	// UserByToken returns who owns a token. Error: ErrNotFound, also for one that has ended.
	UserByToken(ctx context.Context, hash []byte) (SignIn, error)
	// TouchToken stores when a token was last used. A token that is gone is no error.
	TouchToken(ctx context.Context, hash []byte, at time.Time) error
	// CreateToken stores a token, known by its hash, for the user of that name. Error:
	// *NotFoundError.
	CreateToken(ctx context.Context, user, label string, hash []byte, expires time.Time) (Token, error)
	// ListTokens returns all tokens by user, label and id; of one user if its name is given.
	ListTokens(ctx context.Context, user string) ([]Token, error)
	// DeleteToken ends a token. Error: *NotFoundError.
	DeleteToken(ctx context.Context, id string) error
}
