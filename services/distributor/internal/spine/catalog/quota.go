// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import "fmt"

// BundleChange is the effect of other content of one source on the bundles that are made of a
// project's repositories. Sizes are bytes before compression, so that each replica and each version
// finds the same.
type BundleChange struct {
	// Before and After are the sizes of all bundles together, those with equal content once.
	Before, After int64
	// Last and Next are the sizes of the source's content; Last is zero if it has none yet.
	Last, Next int64
}

// Refuses returns a sentence for people about the quota that the change would exceed, or "" if
// there is room for it. A change that makes nothing larger is never refused, so that people can
// shrink what a lowered quota no longer allows.
func (q ProjectQuotas) Refuses(project string, c BundleChange) string {
	const advice = "what was delivered before continues to be delivered; make the content smaller, such as by exclude, or raise the quota"
	switch {
	case q.BytesPerBundle != nil && c.Next > *q.BytesPerBundle && c.Next > c.Last:
		return fmt.Sprintf("the content of the source has %d bytes, and spec.quotas.bytesPerBundle of project %s allows %d; %s",
			c.Next, project, *q.BytesPerBundle, advice)
	case q.BundleBytes != nil && c.After > *q.BundleBytes && c.After > c.Before:
		return fmt.Sprintf("the bundles of project %s have %d bytes and would have %d with this content, and spec.quotas.bundleBytes allows %d; "+
			"\"leat get project/%s -o yaml\" lists the largest; %s", project, c.Before, c.After, *q.BundleBytes, project, advice)
	}
	return ""
}

// BoundsBundles reports whether one of the quotas is about bundles.
func (q ProjectQuotas) BoundsBundles() bool { return q.BundleBytes != nil || q.BytesPerBundle != nil }
