// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"context"
	"strings"
)

// HubSubject is the subject of what the hub does itself.
const HubSubject = "service:distributor"

// Origin is where a change of the catalog comes from: who makes it, in which call, and why. The zero
// Origin is the hub itself.
type Origin struct {
	// Subject and SubjectUID are the caller, such as "user:ada".
	Subject    string
	SubjectUID string
	// TokenID is the token of the call, and Credential what that was issued for.
	TokenID    string
	Credential string
	// TokenLimit describes the limit of the API token behind the call. Empty: it has none.
	TokenLimit string
	// Claims describe the workload that the token was issued to. Nil for others.
	Claims map[string]string
	// SourceAddress and UserAgent are the caller's.
	SourceAddress string
	UserAgent     string
	// Procedure is the RPC, or the path of a page.
	Procedure string
	// Method is the method of the request; empty: POST, as that of every call.
	Method string
	// RequestID names the call, and TraceID its trace.
	RequestID string
	TraceID   string
	// Reason is why the caller makes the change, in their words.
	Reason string
	// Asked is what the call is about, for changes that do not name an object themselves.
	Asked Target
}

// Target is the object that a call names.
type Target struct {
	Verb, Kind, Name string
	// Cluster is the one that a service is named with, as people write it; empty otherwise.
	Cluster string
}

// By returns who makes the change.
func (o Origin) By() string { return cmp.Or(o.Subject, HubSubject) }

type originKey struct{}

// WithOrigin returns a context whose edits come from origin.
func WithOrigin(ctx context.Context, origin Origin) context.Context {
	return context.WithValue(ctx, originKey{}, origin)
}

// OriginOf returns where the edits of a context come from. A context without an origin is the hub's.
func OriginOf(ctx context.Context) Origin {
	origin, _ := ctx.Value(originKey{}).(Origin)
	return origin
}

// Change is one change of an edit, for the record of it.
type Change struct {
	// Verb is what was done, such as "create".
	Verb string
	// Kind and Name are the object's. UID is empty where the object has none.
	Kind, Name, UID string
	// Cluster is the one that the object belongs to, or that it is. Empty: none.
	Cluster string
	// Before and After are an Object, a Token, a BootstrapToken or a Session, with secrets. Nil: there was none before, there is
	// none after, or nothing is to be recorded of it.
	Before, After any
}

// ChangeOf returns the change from one object to another of the same key. Either may be nil, and not
// both. Neither may change afterwards.
func ChangeOf(before, after Object) Change {
	change := Change{Verb: VerbUpdate}
	object := after
	switch {
	case before == nil:
		change.Verb = VerbCreate
	case after == nil:
		change.Verb, object = VerbDelete, before
	case isSync(before, after):
		change.Verb = VerbSync
	}
	if before != nil {
		change.Before = before
	}
	if after != nil {
		change.After = after
	}
	change.Kind, change.Name, change.UID = string(object.Key().Kind), object.Key().Name, object.Meta().UID
	switch o := object.(type) {
	case *Service:
		change.Cluster = o.Spec.Cluster
	case *Cluster:
		change.Cluster = o.Name
	}
	return change
}

// isSync reports whether nothing but the request for a sync differs.
func isSync(before, after Object) bool {
	a, ok := before.(*Service)
	b, also := after.(*Service)
	return ok && also && a.SyncRequest != b.SyncRequest && a.ResourceVersion == b.ResourceVersion
}

// Verbs of changes that no call of a person makes, so they are not verbs of permissions as the others
// are.
const (
	VerbEnrol   = "enrol"
	VerbRestore = "restore"
)

// Kinds of records that are not kinds of objects.
const (
	RecordJoinToken = "JoinToken"
	// RecordBootstrapToken is a bootstrap token. Its records are named by its id.
	RecordBootstrapToken = "BootstrapToken"
	RecordAccessToken    = "AccessToken"
	RecordSealingKey     = "SealingKey"
	RecordSigningKey     = "SigningKey"
	// RecordCall is a call that changes nothing.
	RecordCall = "Call"
	// RecordHub is the hub itself.
	RecordHub = "Hub"
)

// SecretEffect is what a change did to a secret.
type SecretEffect string

// The effects on secrets.
const (
	SecretSet      SecretEffect = "set"
	SecretReplaced SecretEffect = "replaced"
	SecretRemoved  SecretEffect = "removed"
)

// SecretChanges returns what a change did to the secrets of an object, by the paths of their fields.
// It reveals no secret.
func (c Change) SecretChanges() map[string]SecretEffect {
	effects := map[string]SecretEffect{}
	before, after := secretsOf(c.Before), secretsOf(c.After)
	for path, secret := range after {
		switch old, had := before[path]; {
		case !had:
			effects[path] = SecretSet
		case old != secret:
			effects[path] = SecretReplaced
		}
	}
	for path := range before {
		if _, has := after[path]; !has {
			effects[path] = SecretRemoved
		}
	}
	return effects
}

// secretsOf returns the secrets of an object, and none of a record of another kind.
func secretsOf(record any) map[string]any {
	object, ok := record.(Object)
	if !ok {
		return nil
	}
	return object.secrets()
}

func (c *Config) secrets() map[string]any {
	if c == nil {
		return nil
	}
	secrets := map[string]any{}
	for key, text := range c.Secrets {
		secrets[secretField(key)] = text
	}
	return secrets
}

// secretField is the path of a secret in the document of its service or set. Keys are names of variables,
// so they need no quotes.
func secretField(key string) string { return "spec.config.secrets." + key }

// globalSecretField is the path of a secret in the document of its global service. Overrides have names,
// which stay when others come before them.
func globalSecretField(g *GlobalService, layer int, key string) string {
	if layer == 0 {
		return "spec.template.config.secrets." + key
	}
	return "spec.overrides." + g.Spec.Overrides[layer-1].Name + ".config.secrets." + key
}

// camelCase returns a path of a field as documents write it.
func camelCase(path string) string {
	parts := strings.Split(path, "_")
	for i, part := range parts[1:] {
		if part != "" {
			parts[i+1] = strings.ToUpper(part[:1]) + part[1:]
		}
	}
	return strings.Join(parts, "")
}

// WithoutAuthors returns a copy of the object without the names of those that made and changed it, and without
// the reason.
func WithoutAuthors(object Object) Object {
	shown := object.clone()
	meta := shown.Meta()
	meta.CreatedBy, meta.UpdatedBy, meta.Reason = "", "", ""
	return shown
}
