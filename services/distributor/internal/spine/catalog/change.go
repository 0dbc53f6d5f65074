// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

// Change is one change of an edit, for the record of it.
type Change struct {
	// Verb is the action, such as "create".
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
	case object.Key().Kind == KindAccessRequest:
		change.Verb = endVerb(after)
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

// endVerb returns what an edit of an access request does: every edit ends it.
func endVerb(after Object) string {
	request, _ := after.(*AccessRequest)
	return map[RequestState]string{
		RequestApproved: VerbApprove, RequestDenied: VerbDeny, RequestWithdrawn: VerbWithdraw, RequestLapsed: VerbLapse,
	}[request.Spec.End.State]
}

// Verbs of changes that no call of a person makes, so they are not verbs of permissions as the others
// are.
const (
	VerbEnrol   = "enrol"
	VerbRestore = "restore"
	VerbLapse   = "lapse"
	VerbPush    = "push"
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

// SecretEffect is the effect of a change on a secret.
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

// WithoutAuthors returns a copy of the object without the names of its authors, and without the
// reason.
func WithoutAuthors(object Object) Object {
	shown := object.clone()
	meta := shown.Meta()
	meta.CreatedBy, meta.UpdatedBy, meta.Reason = "", "", ""
	return shown
}
