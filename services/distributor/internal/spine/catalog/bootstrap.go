// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/services/distributor/internal/spine/check"
)

const (
	// DefaultBootstrapLife is how long a bootstrap token is valid by default.
	DefaultBootstrapLife = 24 * time.Hour
	// MaxBootstrapLife is the longest that one can be valid.
	MaxBootstrapLife = 90 * 24 * time.Hour
	// DefaultBootstrapUses is how many clusters a bootstrap token makes by default.
	DefaultBootstrapUses = 100
	// MaxBootstrapUses is the most that one can make.
	MaxBootstrapUses = 10_000
	// MaxBootstrapTokens bounds the bootstrap tokens of the hub that have not ended.
	MaxBootstrapTokens = 1000

	// derivedDigits are how many digits of a uid a derived name ends with.
	derivedDigits      = 10
	maxNamePrefix      = check.MaxName - derivedDigits - 1
	maxBootstrapLabels = 64
)

var (
	namePrefix    = regexp.MustCompile(`^[a-z0-9][-a-z0-9]*$`)
	kubernetesUID = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
)

// BootstrapToken lets agents enrol whose clusters the catalog does not have yet: each use makes one
// cluster, within what the token's maker fixed. Its secret is not kept, only the hash by which the
// store knows it.
type BootstrapToken struct {
	// ID names the token and reveals nothing of its secret.
	ID string
	// Project is where its clusters belong, and NamePrefix what their names begin with.
	Project, NamePrefix string
	// Labels are the labels of its clusters.
	Labels map[string]string
	// Description is a sentence for people.
	Description string
	// MaxUses is how many clusters it may make, and Uses how many it has made.
	MaxUses, Uses int
	CreatedAt     time.Time
	// ExpiresAt is when it ends.
	ExpiresAt time.Time
	// LastUsedAt is when it last made a cluster, whose path is LastCluster. Zero: never.
	LastUsedAt  time.Time
	LastCluster string
	// CreatedBy is who made it, such as "user:ada", and CreatedByUID their uid.
	CreatedBy, CreatedByUID string
	// MadeWith is the id of the API token with a limit that it was made with, and ends with. Empty:
	// none.
	MadeWith string
}

// Validate checks what the maker of a token chooses.
func (t BootstrapToken) Validate() error {
	switch {
	case t.NamePrefix == "":
		return fielderr.New("name_prefix", "is required: every name of a cluster that the token makes begins with it")
	case len(t.NamePrefix) > maxNamePrefix:
		return fielderr.New("name_prefix", "has %d characters; at most %d are allowed", len(t.NamePrefix), maxNamePrefix)
	case !namePrefix.MatchString(t.NamePrefix):
		return fielderr.New("name_prefix", "must be lower-case letters, digits and hyphens, and begin with a letter or digit")
	case len(t.Labels) > maxBootstrapLabels:
		return fielderr.New("labels", "has %d labels; at most %d are allowed", len(t.Labels), maxBootstrapLabels)
	case len(t.Description) > check.MaxDescription:
		return fielderr.New("description", "has %d bytes; at most %d are allowed", len(t.Description), check.MaxDescription)
	case t.MaxUses < 1 || t.MaxUses > MaxBootstrapUses:
		return fielderr.New("max_uses", "must be between 1 and %d", MaxBootstrapUses)
	}
	err := cmp.Or(objectname.ValidateLabel("project", t.Project), check.Labels("labels", t.Labels), checkReserved(nil, t.Sample()))
	if e, ok := errors.AsType[*fielderr.Error](err); ok {
		return &fielderr.Error{Path: strings.TrimPrefix(e.Path, "metadata."), Message: e.Message}
	}
	return err
}

// Sample returns a cluster as the token would make it. Its name is one that no cluster and no
// binding can have, so a person's rights to the sample hold for each cluster of the token.
func (t BootstrapToken) Sample() *Cluster { return t.cluster(t.NamePrefix + "*") }

func (t BootstrapToken) cluster(name string) *Cluster {
	return &Cluster{Metadata: Metadata{Name: objectname.Join(t.Project, name), Labels: maps.Clone(t.Labels)}}
}

// Newcomer is an agent that enrols with a bootstrap token. The agent chooses all of it.
type Newcomer struct {
	// Hash is the hash of the token.
	Hash []byte
	// Key is the agent's public key.
	Key ed25519.PublicKey
	// AgentVersion is the agent's version.
	AgentVersion string
	// Name is the name that it proposes for its cluster. Empty: the hub makes one.
	Name string
	// KubernetesUID is the uid of its namespace kube-system. It proves nothing, because many people
	// can read it: it only shows which enrolments are of one Kubernetes cluster.
	KubernetesUID string
}

// Validate checks what the agent sent.
func (n Newcomer) Validate() error {
	if !kubernetesUID.MatchString(n.KubernetesUID) {
		return fielderr.New("kubernetes_uid", "must be the uid of the namespace kube-system; "+
			"the agent needs the right to get that namespace, and a version that knows bootstrap tokens")
	}
	if n.Name == "" {
		return nil
	}
	return objectname.ValidateLabel("cluster_name", n.Name)
}

// nameOf returns the name that the newcomer's cluster has by the token, without its project. ok is
// false for a name that the token does not allow.
func (t BootstrapToken) nameOf(n Newcomer) (name string, ok bool) {
	if n.Name != "" {
		return n.Name, len(n.Name) > len(t.NamePrefix) && strings.HasPrefix(n.Name, t.NamePrefix)
	}
	digits := strings.ReplaceAll(n.KubernetesUID, "-", "")[:derivedDigits]
	return strings.TrimSuffix(t.NamePrefix, "-") + "-" + digits, true
}

// Admit decides what becomes of a newcomer. known is the cluster that the token made for the same
// Kubernetes cluster before, or nil. Admit returns the cluster to make, or known if the newcomer is
// the agent that enrolled then and has not received the answer. Errors: ErrJoinTokenInvalid,
// *BootstrapError.
//
// A bootstrap token only makes clusters. The uid of a Kubernetes cluster is no secret, so an agent
// with another key is refused, even if the cluster's key was revoked: people revoke a key because
// they do not trust its holder, and the holder may have the token, too.
func (t BootstrapToken) Admit(n Newcomer, known *Cluster, now time.Time) (*Cluster, error) {
	refused := func(why Refusal, cluster string) error {
		return &BootstrapError{Token: t.ID, Why: why, Cluster: cluster, NamePrefix: t.NamePrefix}
	}
	if known != nil {
		if !known.Agent.PublicKey.Equal(n.Key) {
			return nil, refused(RefusedEnrolled, known.Name)
		}
		return known, nil
	}
	name, isAllowed := t.nameOf(n)
	switch {
	case !now.Before(t.ExpiresAt):
		return nil, ErrJoinTokenInvalid
	case t.Uses >= t.MaxUses:
		return nil, refused(RefusedSpent, "")
	case !isAllowed:
		return nil, refused(RefusedName, objectname.Join(t.Project, name))
	}
	return t.cluster(name), nil
}

// Refusal is why a bootstrap token that is valid does not enrol an agent.
type Refusal int

// The refusals.
const (
	// RefusedSpent means that the token has made as many clusters as it may.
	RefusedSpent Refusal = iota + 1
	// RefusedName means that the token does not allow the name.
	RefusedName
	// RefusedTaken means that the name belongs to another cluster.
	RefusedTaken
	// RefusedEnrolled means that the token made a cluster for the Kubernetes cluster already.
	RefusedEnrolled
)

// BootstrapError is the error for an agent that a bootstrap token does not enrol.
type BootstrapError struct {
	// Token is the id of the token.
	Token string
	Why   Refusal
	// Cluster is the path of the cluster that it is about; empty if it is about none.
	Cluster string
	// NamePrefix is the token's.
	NamePrefix string
}

// Error implements error.
func (e *BootstrapError) Error() string {
	cluster := objectname.Display(e.Cluster)
	switch e.Why {
	case RefusedSpent:
		return "the bootstrap token has made as many clusters as it may; make another one, or enrol the cluster with a join token of its own"
	case RefusedName:
		return fmt.Sprintf("the bootstrap token makes no cluster %q: names must begin with %q and be longer; "+
			"change the name that the agent proposes, or leave it out", cluster, e.NamePrefix)
	case RefusedTaken:
		return fmt.Sprintf("there is a cluster %q already, and a bootstrap token takes none over; choose another name, "+
			"delete the cluster if it is gone, or, if it is this one, enrol its agent with a join token (leat cluster token %s)", cluster, cluster)
	case RefusedEnrolled:
		return fmt.Sprintf("the bootstrap token made cluster %q for this Kubernetes cluster, and another key was enrolled; "+
			"if the agent has lost its key, enrol it with a join token (leat cluster token %s)", cluster, cluster)
	}
	return "the bootstrap token does not enrol the agent"
}

// Bootstraps keeps bootstrap tokens, and which clusters were made with them. Its errors are those
// listed with ErrNotFound.
type Bootstraps interface {
	// CreateBootstrapToken stores a token under its hash, and returns it with its id. Tokens that ended
	// 30 days ago are swept on the way. Errors: *NotFoundError for a limited API token that it is made
	// with; a *fielderr.Error if there are MaxBootstrapTokens.
	CreateBootstrapToken(ctx context.Context, token BootstrapToken, hash []byte) (BootstrapToken, error)
	// BootstrapTokens returns all tokens, by project, prefix and id.
	BootstrapTokens(ctx context.Context) ([]BootstrapToken, error)
	// RevokeBootstrapToken ends a token. Error: *NotFoundError.
	RevokeBootstrapToken(ctx context.Context, id string) error
	// Bootstrap uses a token in one edit: it lets admit decide, with the token and the cluster that it
	// made for the newcomer's Kubernetes cluster before, or nil; and then counts the use, remembers
	// the Kubernetes cluster and sets the newcomer's key as the key of the cluster that admit returns.
	// If that is the one from before, nothing changes. The edit's records name the token. Errors:
	// ErrJoinTokenInvalid for a token that does not exist, and the errors of admit.
	Bootstrap(
		ctx context.Context, n Newcomer, admit func(ctx context.Context, tx Tx, token BootstrapToken, known *Cluster) (*Cluster, error),
	) (*Cluster, error)
}

// Bootstrap enrols an agent with a bootstrap token, and makes its cluster. Errors: *fielderr.Error,
// ErrJoinTokenInvalid, *BootstrapError.
func (e *Editor) Bootstrap(ctx context.Context, tokens Bootstraps, n Newcomer) (*Cluster, error) {
	if err := n.Validate(); err != nil {
		return nil, err
	}
	return tokens.Bootstrap(ctx, n, func(ctx context.Context, tx Tx, token BootstrapToken, known *Cluster) (*Cluster, error) {
		admitted, err := token.Admit(n, known, Now())
		if err != nil || admitted == known {
			return admitted, err
		}
		err = e.reviewed(ctx, tx, func(ctx context.Context, tx Tx) error {
			switch _, err := stored(ctx, tx, admitted.Key()); {
			case err == nil:
				return &BootstrapError{Token: token.ID, Why: RefusedTaken, Cluster: admitted.Name, NamePrefix: token.NamePrefix}
			case !errors.Is(err, ErrNotFound):
				return err
			}
			if err := e.validate(admitted); err != nil {
				return err
			}
			created, err := e.insert(ctx, tx, admitted)
			if made, ok := created.(*Cluster); ok {
				admitted = made
			}
			return err
		})
		return admitted, err
	})
}
