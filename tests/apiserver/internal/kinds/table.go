package kinds

import (
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/api/validation/path"
)

// table lists every stored kind. Access reviews, which are never stored, are
// in access_review.go; what hangs off a row with code of its own is joined in
// storage.go (finalize, scale) and binding.go (bindings, evictions).
var table = []*Kind{
	// Core.
	{groupVersion: corev1.SchemeGroupVersion, plural: "namespaces", shortNames: []string{"ns"},
		object: &corev1.Namespace{}, list: &corev1.NamespaceList{},
		hasStatus: true, validName: apivalidation.ValidateNamespaceName,
		selectable: namespaceFields, onCreate: prepareNamespace, onUpdate: keepNamespaceFinalizers},
	{groupVersion: corev1.SchemeGroupVersion, plural: "nodes", shortNames: []string{"no"},
		object: &corev1.Node{}, list: &corev1.NodeList{},
		hasStatus: true, selectable: nodeFields},
	{groupVersion: corev1.SchemeGroupVersion, plural: "pods", shortNames: []string{"po"}, inAll: true,
		object: &corev1.Pod{}, list: &corev1.PodList{}, namespaced: true,
		hasStatus: true, hasGeneration: true, returnsDeleted: true,
		selectable: podFields, onCreate: preparePod, onStatusUpdate: keepPodOwners,
		validate: validatePod, gracePeriod: podGracePeriod},
	{groupVersion: corev1.SchemeGroupVersion, plural: "services", shortNames: []string{"svc"}, inAll: true,
		object: &corev1.Service{}, list: &corev1.ServiceList{}, namespaced: true,
		hasStatus: true, createOnUpdate: true, returnsDeleted: true,
		validName:  apivalidation.NameIsDNS1035Label,
		selectable: serviceFields, onUpdate: keepClusterIP, validate: validateService},
	{groupVersion: corev1.SchemeGroupVersion, plural: "endpoints", shortNames: []string{"ep"},
		object: &corev1.Endpoints{}, list: &corev1.EndpointsList{}, namespaced: true, createOnUpdate: true},
	{groupVersion: corev1.SchemeGroupVersion, plural: "configmaps", shortNames: []string{"cm"},
		object: &corev1.ConfigMap{}, list: &corev1.ConfigMapList{}, namespaced: true,
		validate: validateConfigMap},
	{groupVersion: corev1.SchemeGroupVersion, plural: "secrets",
		object: &corev1.Secret{}, list: &corev1.SecretList{}, namespaced: true,
		immutable: []string{"Type"}, selectable: secretFields, onCreate: mergeSecretStringData,
		onUpdate: mergeSecretStringDataOnUpdate, validate: validateSecret},
	{groupVersion: corev1.SchemeGroupVersion, plural: "serviceaccounts", shortNames: []string{"sa"},
		object: &corev1.ServiceAccount{}, list: &corev1.ServiceAccountList{}, namespaced: true,
		returnsDeleted: true, validName: apivalidation.ValidateServiceAccountName},
	{groupVersion: corev1.SchemeGroupVersion, plural: "events", shortNames: []string{"ev"},
		object: &corev1.Event{}, list: &corev1.EventList{}, namespaced: true,
		createOnUpdate: true, inertToCollector: true,
		selectable: eventFields, validate: validateEvent},
	{groupVersion: corev1.SchemeGroupVersion, plural: "persistentvolumeclaims", shortNames: []string{"pvc"},
		object: &corev1.PersistentVolumeClaim{}, list: &corev1.PersistentVolumeClaimList{}, namespaced: true,
		hasStatus: true, returnsDeleted: true, onCreate: preparePersistentVolumeClaim},
	{groupVersion: corev1.SchemeGroupVersion, plural: "persistentvolumes", shortNames: []string{"pv"},
		object: &corev1.PersistentVolume{}, list: &corev1.PersistentVolumeList{},
		hasStatus: true, returnsDeleted: true, onCreate: preparePersistentVolume},
	{groupVersion: corev1.SchemeGroupVersion, plural: "replicationcontrollers", shortNames: []string{"rc"}, inAll: true,
		object: &corev1.ReplicationController{}, list: &corev1.ReplicationControllerList{}, namespaced: true,
		hasStatus: true, hasGeneration: true, orphans: true,
		selectable: replicationControllerFields, scale: replicationControllerScale},
	{groupVersion: corev1.SchemeGroupVersion, plural: "resourcequotas", shortNames: []string{"quota"},
		object: &corev1.ResourceQuota{}, list: &corev1.ResourceQuotaList{}, namespaced: true,
		hasStatus: true, returnsDeleted: true},
	{groupVersion: corev1.SchemeGroupVersion, plural: "limitranges", shortNames: []string{"limits"},
		object: &corev1.LimitRange{}, list: &corev1.LimitRangeList{}, namespaced: true, createOnUpdate: true},
	{groupVersion: eventsv1.SchemeGroupVersion, plural: "events", shortNames: []string{"ev"},
		object: &corev1.Event{}, list: &corev1.EventList{}, namespaced: true,
		createOnUpdate: true, inertToCollector: true,
		selectable: eventFields, selectorNames: groupEventSelectors, validate: validateGroupEvent},

	// Workloads.
	{groupVersion: appsv1.SchemeGroupVersion, plural: "deployments", shortNames: []string{"deploy"}, inAll: true,
		object: &appsv1.Deployment{}, list: &appsv1.DeploymentList{}, namespaced: true,
		hasStatus: true, hasGeneration: true, annotationsCount: true,
		immutable: []string{"Spec.Selector"}, onStatusUpdate: keepDeploymentLabels,
		validate: validateWorkload, scale: deploymentScale},
	{groupVersion: appsv1.SchemeGroupVersion, plural: "replicasets", shortNames: []string{"rs"}, inAll: true,
		object: &appsv1.ReplicaSet{}, list: &appsv1.ReplicaSetList{}, namespaced: true,
		hasStatus: true, hasGeneration: true, immutable: []string{"Spec.Selector"},
		selectable: replicaSetFields, validate: validateWorkload, scale: replicaSetScale},
	{groupVersion: appsv1.SchemeGroupVersion, plural: "statefulsets", shortNames: []string{"sts"}, inAll: true,
		object: &appsv1.StatefulSet{}, list: &appsv1.StatefulSetList{}, namespaced: true,
		hasStatus: true, hasGeneration: true,
		immutable: []string{"Spec.Selector", "Spec.ServiceName", "Spec.PodManagementPolicy", "Spec.VolumeClaimTemplates"},
		validate:  validateWorkload, scale: statefulSetScale},
	{groupVersion: appsv1.SchemeGroupVersion, plural: "daemonsets", shortNames: []string{"ds"}, inAll: true,
		object: &appsv1.DaemonSet{}, list: &appsv1.DaemonSetList{}, namespaced: true,
		hasStatus: true, hasGeneration: true, immutable: []string{"Spec.Selector"}, validate: validateWorkload},
	{groupVersion: appsv1.SchemeGroupVersion, plural: "controllerrevisions",
		object: &appsv1.ControllerRevision{}, list: &appsv1.ControllerRevisionList{}, namespaced: true,
		immutable: []string{"Data"}},
	{groupVersion: batchv1.SchemeGroupVersion, plural: "jobs", inAll: true,
		object: &batchv1.Job{}, list: &batchv1.JobList{}, namespaced: true,
		hasStatus: true, hasGeneration: true, orphans: true,
		immutable:  []string{"Spec.Selector", "Spec.Template.Spec.Containers", "Spec.CompletionMode"},
		selectable: jobFields, onCreate: prepareJob},
	{groupVersion: batchv1.SchemeGroupVersion, plural: "cronjobs", shortNames: []string{"cj"}, inAll: true,
		object: &batchv1.CronJob{}, list: &batchv1.CronJobList{}, namespaced: true,
		hasStatus: true, hasGeneration: true, validName: nameIsCronJob},
	{groupVersion: autoscalingv2.SchemeGroupVersion, plural: "horizontalpodautoscalers", shortNames: []string{"hpa"}, inAll: true,
		object: &autoscalingv2.HorizontalPodAutoscaler{}, list: &autoscalingv2.HorizontalPodAutoscalerList{},
		namespaced: true, hasStatus: true},
	{groupVersion: policyv1.SchemeGroupVersion, plural: "poddisruptionbudgets", shortNames: []string{"pdb"},
		object: &policyv1.PodDisruptionBudget{}, list: &policyv1.PodDisruptionBudgetList{}, namespaced: true,
		hasStatus: true, hasGeneration: true, createOnUpdate: true, needsVersion: true},

	// Coordination and networking.
	{groupVersion: coordinationv1.SchemeGroupVersion, plural: "leases",
		object: &coordinationv1.Lease{}, list: &coordinationv1.LeaseList{}, namespaced: true,
		createOnUpdate: true, needsVersion: true, validate: validateLease},
	{groupVersion: discoveryv1.SchemeGroupVersion, plural: "endpointslices",
		object: &discoveryv1.EndpointSlice{}, list: &discoveryv1.EndpointSliceList{}, namespaced: true,
		hasGeneration: true, createOnUpdate: true, immutable: []string{"AddressType"}},
	{groupVersion: networkingv1.SchemeGroupVersion, plural: "ingresses", shortNames: []string{"ing"},
		object: &networkingv1.Ingress{}, list: &networkingv1.IngressList{}, namespaced: true,
		hasStatus: true, hasGeneration: true},
	{groupVersion: networkingv1.SchemeGroupVersion, plural: "networkpolicies", shortNames: []string{"netpol"},
		object: &networkingv1.NetworkPolicy{}, list: &networkingv1.NetworkPolicyList{}, namespaced: true,
		hasGeneration: true},

	// Cluster-wide settings.
	{groupVersion: storagev1.SchemeGroupVersion, plural: "storageclasses", shortNames: []string{"sc"},
		object: &storagev1.StorageClass{}, list: &storagev1.StorageClassList{}, returnsDeleted: true,
		immutable: []string{"Provisioner", "Parameters", "ReclaimPolicy", "VolumeBindingMode"}},
	{groupVersion: schedulingv1.SchemeGroupVersion, plural: "priorityclasses", shortNames: []string{"pc"},
		object: &schedulingv1.PriorityClass{}, list: &schedulingv1.PriorityClassList{},
		hasGeneration: true, immutable: []string{"Value", "PreemptionPolicy"}},

	// Access.
	{groupVersion: rbacv1.SchemeGroupVersion, plural: "roles",
		object: &rbacv1.Role{}, list: &rbacv1.RoleList{}, namespaced: true,
		createOnUpdate: true, validName: path.ValidatePathSegmentName},
	{groupVersion: rbacv1.SchemeGroupVersion, plural: "clusterroles",
		object: &rbacv1.ClusterRole{}, list: &rbacv1.ClusterRoleList{},
		createOnUpdate: true, validName: path.ValidatePathSegmentName},
	{groupVersion: rbacv1.SchemeGroupVersion, plural: "rolebindings",
		object: &rbacv1.RoleBinding{}, list: &rbacv1.RoleBindingList{}, namespaced: true,
		createOnUpdate: true, validName: path.ValidatePathSegmentName, immutable: []string{"RoleRef"}},
	{groupVersion: rbacv1.SchemeGroupVersion, plural: "clusterrolebindings",
		object: &rbacv1.ClusterRoleBinding{}, list: &rbacv1.ClusterRoleBindingList{},
		createOnUpdate: true, validName: path.ValidatePathSegmentName, immutable: []string{"RoleRef"}},
}
