// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"slices"
	"strings"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/internal/kit/fielderr"
)

const serviceAccountKey = "spec.policy.service_account"

// admitService checks a service's spec itself. The agent checks its manifests.
func (l ProjectLimits) admitService(s *Service) error {
	project := objectname.Project(s.Name)
	if cluster := objectname.Format(s.Spec.Cluster, project); !l.Clusters.Allows(cluster) {
		return fielderr.New("spec.cluster", "%q is not among the clusters that project %s allows: %s", cluster, project, l.Clusters)
	}
	options := s.Spec.Wanted()
	if namespace := options.NamespaceOrDefault(); !l.Namespaces.Allows(namespace) {
		return fielderr.New("spec.namespace", "%q is not among the namespaces that project %s allows: %s", namespace, project, l.Namespaces)
	}
	for i, dependency := range options.Policy.DependsOn {
		if dependency.Object == nil {
			continue
		}
		if err := l.admitRead(fielderr.Indexed("spec.policy.depends_on", i)+".object", project, options.NamespaceOrDefault(), *dependency.Object); err != nil {
			return err
		}
	}
	for i, step := range options.Render {
		if step.Helm == nil {
			continue
		}
		for j, rule := range step.Helm.Lookup {
			field := fielderr.Indexed(fielderr.Indexed("spec.render", i)+".helm.lookup", j)
			if err := l.admitRead(field, project, options.NamespaceOrDefault(), syncpolicy.ObjectReference(rule)); err != nil {
				return err
			}
		}
	}
	return l.admitAccount(project, options.Policy.ServiceAccount, options.NamespaceOrDefault())
}

func (l ProjectLimits) admitAccount(project, account, namespace string) error {
	switch {
	case l.ServiceAccounts == nil:
		return nil
	case account == "":
		return fielderr.New(serviceAccountKey, "is required, because project %s allows only the service accounts %s", project, l.ServiceAccounts)
	case !strings.Contains(account, "/"):
		account = namespace + "/" + account
	}
	if !l.ServiceAccounts.Allows(account) {
		return fielderr.New(serviceAccountKey, "%q is not among the service accounts that project %s allows: %s", account, project, l.ServiceAccounts)
	}
	return nil
}

// admitRead checks an object of the cluster that a service reads: one that it depends on, or, with the
// name *, all of a kind that its charts may look up. The hub knows the kinds of Kubernetes itself. A
// kind of a definition counts as one with namespaces here, and the agent, which knows better, checks
// every read again. The agent also refuses its own namespace, which the hub does not know.
func (l ProjectLimits) admitRead(field, project, namespace string, o syncpolicy.ObjectReference) error {
	group, _, hasGroup := strings.Cut(o.APIVersion, "/")
	kind := o.Kind
	if hasGroup {
		kind += "." + group
	}
	isClusterScoped := slices.Contains(clusterScoped, kind)
	namespace = cmp.Or(o.Namespace, namespace)
	switch {
	case isClusterScoped && !l.ClusterScopedKinds.Allows(kind):
		return fielderr.New(field+".kind", "%q has no namespace, and of such kinds project %s allows %s", kind, project, l.ClusterScopedKinds)
	case kind == "Namespace" && o.Name != "*" && !l.Namespaces.Allows(o.Name):
		return fielderr.New(field+".name", "%q is not among the namespaces that project %s allows: %s", o.Name, project, l.Namespaces)
	case !isClusterScoped && !l.Namespaces.Allows(namespace):
		return fielderr.New(field+".namespace", "%q is not among the namespaces that project %s allows: %s", namespace, project, l.Namespaces)
	}
	return nil
}

// clusterScoped are the kinds without namespaces that Kubernetes itself serves, as limits name them.
var clusterScoped = []string{
	"APIService.apiregistration.k8s.io",
	"CSIDriver.storage.k8s.io",
	"CSINode.storage.k8s.io",
	"CertificateSigningRequest.certificates.k8s.io",
	"ClusterRole.rbac.authorization.k8s.io",
	"ClusterRoleBinding.rbac.authorization.k8s.io",
	"ClusterTrustBundle.certificates.k8s.io",
	"ComponentStatus",
	"CustomResourceDefinition.apiextensions.k8s.io",
	"DeviceClass.resource.k8s.io",
	"FlowSchema.flowcontrol.apiserver.k8s.io",
	"IPAddress.networking.k8s.io",
	"IngressClass.networking.k8s.io",
	"MutatingAdmissionPolicy.admissionregistration.k8s.io",
	"MutatingAdmissionPolicyBinding.admissionregistration.k8s.io",
	"MutatingWebhookConfiguration.admissionregistration.k8s.io",
	"Namespace",
	"Node",
	"PersistentVolume",
	"PriorityClass.scheduling.k8s.io",
	"PriorityLevelConfiguration.flowcontrol.apiserver.k8s.io",
	"ResourceSlice.resource.k8s.io",
	"RuntimeClass.node.k8s.io",
	"ServiceCIDR.networking.k8s.io",
	"StorageClass.storage.k8s.io",
	"StorageVersion.internal.apiserver.k8s.io",
	"StorageVersionMigration.storagemigration.k8s.io",
	"ValidatingAdmissionPolicy.admissionregistration.k8s.io",
	"ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io",
	"ValidatingWebhookConfiguration.admissionregistration.k8s.io",
	"VolumeAttachment.storage.k8s.io",
	"VolumeAttributesClass.storage.k8s.io",
}
